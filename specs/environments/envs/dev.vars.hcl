env      = "dev"
ceph_key = "a-key-of-the-laboratory"
