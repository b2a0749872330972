/** What the platform calls itself, on pages and in letters. */
export const platformName = 'Platform'
