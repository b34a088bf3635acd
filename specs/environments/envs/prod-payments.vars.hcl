database_size = "500GiB"
