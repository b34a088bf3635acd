# expect: job/incomplete
job "x" {
  type = "batch"
  periodic {
    prohibit_overlap = true
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
