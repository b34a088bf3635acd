# expect: job/not-supported job/not-supported
# Nomad accepts this.
# Reason: this program does not carry it out, and without it the job could do something else to its volumes.
job "x" {
  type = "batch"
  parameterized {
    payload = "required"
  }
  group "g" {
    task "t" {
      driver = "exec"
      dispatch_payload {
        file = "in"
      }
    }
  }
}
