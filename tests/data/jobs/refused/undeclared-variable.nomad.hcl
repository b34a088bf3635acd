# expect: job/expression
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      user = var.user
    }
  }
}
