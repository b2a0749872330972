type Names = readonly (readonly [RegExp, string])[]

// The order matters: most browsers also carry the names that come later.
const browsers: Names = [
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\b(?:OPR|Opera)\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:Chrome|Chromium|CriOS|HeadlessChrome)\//, 'Chrome'],
  [/\bVersion\/\S+ .*\bSafari\//, 'Safari'],
]
const systems: Names = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac(?:intosh| OS X)\b/, 'Mac'],
  [/\bLinux\b/, 'Linux'],
]

const nameIn = (names: Names, text: string): string | undefined => names.find(([pattern]) => pattern.test(text))?.[1]

/** The product name at the start of a User-Agent of a program other than a browser: `curl` in `curl/8.5.0`. */
const PROGRAM = /^(?!Mozilla\b)([A-Za-z][\w.-]{0,39})(?:\/|\s|$)/

/**
 * Describes a User-Agent header in words that its owner recognises, such as `Firefox on Linux`, or the name of a program,
 * such as `curl`. A guess: the header can say anything.
 */
export function describeBrowser(userAgent: string | null): string {
  const name = nameIn(browsers, userAgent ?? '') ?? PROGRAM.exec(userAgent ?? '')?.[1]
  const system = nameIn(systems, userAgent ?? '')
  if (name !== undefined && system !== undefined) return `${name} on ${system}`
  return name ?? (system === undefined ? 'Unknown browser' : `Browser on ${system}`)
}
