# expect: spec/missing-field
# Nomad accepts this.
# Reason: Nomad drops a volume without a type, so the job runs without it.
job "x" {
  group "g" {
    volume "data" {
      source = "db"
    }
    task "t" {
      driver = "exec"
    }
  }
}
