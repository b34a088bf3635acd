# expect: job/invalid-value
job "x" {
  datacenters = ["dc1", ""]
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
