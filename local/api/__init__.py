"""The parts of the REST API that are about databases and Workers."""
