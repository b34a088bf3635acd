# expect: job/constraint
job "x" {
  constraint {
    attribute = "${attr.kernel.name}"
    regexp    = "("
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
