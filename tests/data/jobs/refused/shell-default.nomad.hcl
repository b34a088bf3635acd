# expect: job/expression
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      env {
        A = "${HOME:-x}"
      }
    }
  }
}
