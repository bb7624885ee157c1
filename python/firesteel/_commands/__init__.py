"""The words that `firesteel WORD …` knows, one module each."""
