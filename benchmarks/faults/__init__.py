"""What npformer does when something goes wrong around it: each module makes faults and counts what they cost."""
