type Names = readonly (readonly [RegExp, string])[]

// In this order: most browsers also call themselves by the names that come later.
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

/** The product that a program other than a browser begins with: `curl/8.5.0` is curl. */
const PROGRAM = /^(?!Mozilla\b)([A-Za-z][\w.-]{0,39})(?:\/|\s|$)/

/**
 * A User-Agent header in the words of its owner, such as `Firefox on Linux`, or the name of a program, such as `curl`. A
 * guess: everybody calls themselves what they like.
 */
export function describeBrowser(userAgent: string | null): string {
  const name = nameIn(browsers, userAgent ?? '') ?? PROGRAM.exec(userAgent ?? '')?.[1]
  const system = nameIn(systems, userAgent ?? '')
  if (name !== undefined && system !== undefined) return `${name} on ${system}`
  return name ?? (system === undefined ? 'Unknown browser' : `Browser on ${system}`)
}
