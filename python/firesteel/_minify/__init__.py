"""`firesteel minify`: from a program that fails, or differs from eager, to a few operators in a file of their own."""
