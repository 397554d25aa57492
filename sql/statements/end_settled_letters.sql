SELECT end_settled_letters()
