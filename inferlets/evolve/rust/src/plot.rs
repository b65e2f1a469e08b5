//! The reward curve as a picture.

const WIDTH: f32 = 640.0;
const HEIGHT: f32 = 360.0;
const MARGIN: f32 = 48.0;

/// An SVG file that shows the rewards, one after another.
pub fn curve(rewards: &[f32]) -> String {
    let low = rewards.iter().copied().fold(f32::MAX, f32::min);
    let high = rewards.iter().copied().fold(f32::MIN, f32::max);
    let range = (high - low).max(1e-6);
    let x =
        |i: usize| MARGIN + (WIDTH - 2.0 * MARGIN) * i as f32 / (rewards.len() - 1).max(1) as f32;
    let y = |reward: f32| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * (reward - low) / range;
    let points: Vec<String> = rewards
        .iter()
        .enumerate()
        .map(|(i, &reward)| format!("{:.1},{:.1}", x(i), y(reward)))
        .collect();
    let last = rewards.len() - 1;
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="white"/>
<path d="M {MARGIN} {MARGIN} V {bottom} H {right}" fill="none" stroke="#888"/>
<polyline points="{points}" fill="none" stroke="#1f6feb" stroke-width="2"/>
<text x="6" y="{high_y:.0}">{high:.2}</text>
<text x="6" y="{low_y:.0}">{low:.2}</text>
<text x="{MARGIN}" y="{label_y}">0</text>
<text x="{last_x}" y="{label_y}" text-anchor="end">{last} generations</text>
<text x="{MARGIN}" y="24">reward: mean log-probability of the wanted beginning</text>
</svg>
"##,
        points = points.join(" "),
        bottom = HEIGHT - MARGIN,
        right = WIDTH - MARGIN,
        high_y = y(high) + 4.0,
        low_y = y(low) + 4.0,
        label_y = HEIGHT - MARGIN + 20.0,
        last_x = WIDTH - MARGIN,
    )
}
