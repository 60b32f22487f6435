"""`jaxgrpo data`: which data sets exist, what is in them, whether they are right."""
