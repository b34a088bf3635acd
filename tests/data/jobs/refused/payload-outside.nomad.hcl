# expect: job/invalid-value
job "x" {
  type = "batch"
  parameterized {}
  group "g" {
    task "t" {
      driver = "exec"
      dispatch_payload {
        file = "../../../etc/passwd"
      }
    }
  }
}
