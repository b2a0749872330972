export const greet = (name: string): string => `Hello ${name}, from a package of the workspace`
