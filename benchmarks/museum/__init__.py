"""Makes the museum's store: what finds each bug, and what short runs with and without it show."""
