"""The chain of operators, one file each (pure): they return outcomes and effects, never write."""
