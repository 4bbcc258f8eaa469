import DefaultTheme from 'vitepress/theme';
// oxlint-disable-next-line import/no-unassigned-import -- Vite adds the styles
import './style.css';

export default DefaultTheme;
