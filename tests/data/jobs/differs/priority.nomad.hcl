# expect: job/invalid-value
# Nomad accepts this without a server.
# Reason: a server with its default configuration refuses it.
job "x" {
  priority = 200
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
