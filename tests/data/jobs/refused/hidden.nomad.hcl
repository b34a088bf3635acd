# expect: job/hidden
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command = "/bin/true"
      }
      env {
        TOKEN = "[REDACTED]"
      }
    }
  }
}
