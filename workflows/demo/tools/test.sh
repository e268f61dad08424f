# The project's tests; adw.yaml names this file as TEST.
echo "test" >>"$DIARY"
exec "$PYTHON" -B -m unittest
