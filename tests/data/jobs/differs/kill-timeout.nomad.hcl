# expect: job/invalid-value
# Nomad accepts this.
# Reason: Nomad's clients shorten it to their `max_kill_timeout`, 30 seconds by default, without a word.
job "x" {
  group "g" {
    task "t" {
      driver       = "exec"
      kill_timeout = "61m"
    }
  }
}
