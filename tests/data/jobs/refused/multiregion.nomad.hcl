# expect: job/not-supported
job "x" {
  multiregion {
    region "west" {
      count = 1
    }
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
