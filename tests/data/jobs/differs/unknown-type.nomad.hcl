# expect: job/unknown-word
# Nomad accepts this.
# Reason: Nomad drops a volume of an unknown type, so the job runs without it.
job "x" {
  group "g" {
    volume "data" {
      type   = "nfs"
      source = "db"
    }
    task "t" {
      driver = "exec"
    }
  }
}
