"""What each operation costs: round trips between the Worker and Cloudflare's services."""
