# expect: job/not-supported
# Nomad accepts this.
# Reason: this program does not carry it out, and without it the job could do something else to its volumes.
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      vault {
        role = "x"
      }
    }
  }
}
