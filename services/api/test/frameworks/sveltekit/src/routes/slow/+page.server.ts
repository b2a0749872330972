export const load = () => ({
  slow: new Promise<string>((resolve) => setTimeout(() => resolve('The slow part'), 600)),
})
