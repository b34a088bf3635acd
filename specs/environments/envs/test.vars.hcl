env = "test"
