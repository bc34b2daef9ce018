"""A small web shop as one finds it: FastAPI, SQLAlchemy, no version columns, a service that commits by itself."""
