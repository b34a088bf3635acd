shards = ["eu", "us", "ap"]
