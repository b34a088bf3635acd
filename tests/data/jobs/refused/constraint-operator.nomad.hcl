# expect: job/unknown-word
job "x" {
  constraint {
    attribute = "${attr.kernel.name}"
    operator  = "equals"
    value     = "linux"
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
