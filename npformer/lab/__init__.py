"""Study: a museum of bugs that the checks have to find, and a grader of gradients that learners write."""
