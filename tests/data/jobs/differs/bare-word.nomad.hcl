# expect: job/expression
# Nomad accepts this.
# Reason: Nomad reads the reference `${root}`, which no node replaces; the quotes are missing.
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      user = root
    }
  }
}
