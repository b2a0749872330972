/** A name as far as hands can type it: what nobody sees is nothing, and white space of any kind and length is one space. */
const typable = (name: string): string =>
  name
    .normalize('NFC')
    .replaceAll(/[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, '')
    .replaceAll(/\s+/g, ' ')
    .trim()

/** Whether a person has typed this name, as well as it can be typed. */
export const isTyped = (typed: string, name: string): boolean => typable(typed) === typable(name)
