"""What an adversarial tester found: each test holds one fault that was mended."""
