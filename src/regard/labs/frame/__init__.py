"""What every lab shares: its values, how a verdict follows from checks, and how a result is told, drawn and stored."""
