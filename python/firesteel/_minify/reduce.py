"""Takes operators away from a failing graph while it fails in the same way."""

from .cut import Cutter


class Reducer:
    """`judge(case)` says how a case fails, or gives None; `tell(count)` hears of each smaller one."""

    def __init__(self, case, judge, tell=lambda count: None):
        self._judge, self._tell = judge, tell
        self._cutter = Cutter(case)
        self.tries = 0
        self.kind = None  # of the failure
        self.numbers = list(range(len(self._cutter.nodes)))
        self.outputs = self._cutter.outputs

    @property
    def case(self):
        return self._cutter.case(self.numbers, self.outputs)

    def start(self):
        """Whether the whole graph fails when it runs as the pieces of it will."""
        found = self._try(self.numbers, self.outputs)
        self.kind = found and found[0]
        return found

    def reduce(self):
        """Gives the smallest case that was found; start() comes first."""
        self._one_output()
        self._shorten_end()
        self._one_output()
        self._shorten_begin()
        self._drop_chunks()
        self._one_output()
        return self.case

    def _try(self, numbers, outputs):
        if not numbers or not outputs:
            return None
        self.tries += 1
        return self._judge(self._cutter.case(numbers, outputs))

    def _take(self, numbers, outputs):
        """Makes it the case at hand where it fails as the first did."""
        numbers = self._cutter.needed(numbers, outputs)
        found = self._try(numbers, outputs)
        if not found or found[0] != self.kind:
            return False
        if len(numbers) < len(self.numbers):
            self._tell(len(numbers))
        self.numbers, self.outputs = numbers, list(outputs)
        return True

    def _one_output(self):
        if len(self.outputs) < 2:
            return
        found = self._try(self.numbers, self.outputs)
        if found and found[2] is not None and self._take(self.numbers, [self.outputs[found[2]]]):
            return
        # An error names no result: halves, as long as one of them will do.
        while len(self.outputs) > 1:
            middle = len(self.outputs) // 2
            if not any(self._take(self.numbers, half) for half in (self.outputs[:middle], self.outputs[middle:])):
                return

    def _shorten_end(self):
        """The fewest first operators, by halving: what fails early mostly fails still where more follows."""
        low, high = 0, len(self.numbers)  # `low` of them do not fail, `high` do
        numbers = self.numbers
        while high - low > 1:
            middle = (low + high) // 2
            first = numbers[:middle]
            if self._take(first, self._cutter.open_results(first)):
                high = middle
            else:
                low = middle

    def _shorten_begin(self):
        low, high = 0, len(self.numbers)  # without `low` of the first it fails, without `high` not
        numbers = self.numbers
        while high - low > 1:
            middle = (low + high) // 2
            if self._take(numbers[middle:], self.outputs):
                low = middle
            else:
                high = middle

    def _drop_chunks(self):
        """Any operators whose results can as well be given: first many at a time, at last one by one."""
        size = max(len(self.numbers) // 2, 1)
        while True:
            shrunk = False
            at = 0
            while at < len(self.numbers):
                rest = self.numbers[:at] + self.numbers[at + size :]
                outputs = [name for name in self.outputs if any(name in self._cutter.nodes[n].names for n in rest)]
                if self._take(rest, outputs or self._cutter.open_results(rest)):
                    shrunk = True
                else:
                    at += size
            if size == 1 and not shrunk:
                return
            size = max(size // 2, 1)
