//! The start time of a process, which tells it from a later one with its number.

/// Returns field 22 of `/proc/PID/stat`: clock ticks since the boot. The second field is the program's name in
/// parentheses, which may contain spaces and parentheses.
pub fn start_time_in(stat: &str) -> Option<u64> {
    let (_, from_third) = stat.rsplit_once(')')?;
    from_third.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_read_after_any_program_name() {
        let numbers: Vec<_> = (4..=52).map(|field| field.to_string()).collect();
        for name in ["sh", "a) R 1 (b", "(", "two words"] {
            let stat = format!("123 ({name}) S {}\n", numbers.join(" "));
            assert_eq!(start_time_in(&stat), Some(22), "{name}");
        }
        assert_eq!(start_time_in("123 (sh) S 1 2"), None);
        assert_eq!(start_time_in(""), None);
    }
}
