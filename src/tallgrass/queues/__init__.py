"""Where messages come from: one protocol, the embedded queue, and acknowledgement."""
