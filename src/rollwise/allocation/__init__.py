"""How many rollouts each prompt gets, and in how many rounds."""
