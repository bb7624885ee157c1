# Sourced: one set-up or build at a time in this checkout. The lock goes with the process, however it ends.
mkdir -p build
exec 9> build/.lock
if command -v flock > /dev/null && ! flock -n 9; then
  echo "firesteel: waiting for another make in this checkout"
  flock 9
fi
