"""Documents that command line, API and console show, made from what stores return (pure)."""
