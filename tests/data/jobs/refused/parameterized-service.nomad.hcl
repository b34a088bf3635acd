# expect: job/invalid-value
job "x" {
  type = "service"
  parameterized {
    meta_required = ["set"]
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
