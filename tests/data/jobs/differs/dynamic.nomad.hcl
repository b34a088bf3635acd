# expect: job/expression
# Nomad accepts this.
# Reason: this program evaluates no expressions.
job "x" {
  group "g" {
    dynamic "volume" {
      for_each = ["data"]
      labels   = [volume.value]

      content {
        type   = "host"
        source = volume.value
      }
    }
    task "t" {
      driver = "exec"
    }
  }
}
