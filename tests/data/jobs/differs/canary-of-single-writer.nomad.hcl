# expect: job/too-many-users
# Nomad accepts this.
# Reason: the canary waits for the claim of the allocation that it replaces, which stays until the canary is healthy.
job "x" {
  group "g" {
    update {
      canary = 1
    }

    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
    }
  }
}
