# expect:
# Nomad refuses this.
# Reason: nothing in an ignored block is read.
job "x" {
  group "g" {
    service {
      nane     = "web"
      provider = "nomad"
    }
    task "t" {
      driver = "exec"
    }
  }
}
