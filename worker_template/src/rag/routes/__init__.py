"""HTTP routes: they read a request, call core, and write down what it returns."""
