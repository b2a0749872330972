/** The two shapes of the mark, as paths of an SVG whose view box is 16 by 16. */
export const slabs = { upper: 'M5 3h9v4H5z', lower: 'M2 9h12v4H2z' }
