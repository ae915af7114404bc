//! Bars of two systems side by side, as an SVG.

/// Every group has a title and the figures of etcd and Althing; a longer bar is a larger figure, relative to the
/// larger of the two.
pub fn bars(title: &str, unit: &str, groups: &[(String, [f64; 2])]) -> String {
    const ROW: usize = 46;
    const LEFT: usize = 320;
    const BAR: f64 = 300.0;
    let height = 40 + groups.len() * ROW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"22\" font-size=\"15\">{title} ({unit})</text>\n"
    );
    for (nth, (name, figures)) in groups.iter().enumerate() {
        let top = 40 + nth * ROW;
        svg += &format!("<text x=\"10\" y=\"{}\">{name}</text>\n", top + 20);
        let largest = figures[0].max(figures[1]).max(f64::MIN_POSITIVE);
        for (row, (figure, (system, colour))) in
            figures.iter().zip([("etcd", "#9aa5b1"), ("Althing", "#2a7f62")]).enumerate()
        {
            let (y, width) = (top + row * 17, figure / largest * BAR);
            let label = format!("{system} {}", rounded(*figure));
            svg += &format!(
                "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.0}\" height=\"14\" fill=\"{colour}\"/>\n\
                 <text x=\"{:.0}\" y=\"{}\">{label}</text>\n",
                LEFT as f64 + width + 6.0,
                y + 11
            );
        }
    }
    svg + "</svg>\n"
}

pub fn rounded(figure: f64) -> String {
    match figure {
        small if small < 10.0 => format!("{small:.2}"),
        middle if middle < 1000.0 => format!("{middle:.0}"),
        large => {
            let digits = format!("{large:.0}");
            let mut grouped = String::new();
            for (nth, digit) in digits.chars().enumerate() {
                if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            grouped
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn large_figures_are_grouped_by_thousands() {
        assert_eq!(rounded(0.405), "0.41");
        assert_eq!(rounded(999.4), "999");
        assert_eq!(rounded(1_234.0), "1,234");
        assert_eq!(rounded(3_294_833.0), "3,294,833");
    }
}
